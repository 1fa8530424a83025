<?php
$cfg['blowfish_secret'] = 'thirty-two characters of a test.';
$cfg['Servers'][1]['auth_type'] = 'cookie';
$cfg['Servers'][1]['host'] = 'localhost';
$cfg['Servers'][1]['socket'] = '{{socket}}';
if (is_file('{{folder}}/google2fa.php')) {
    $cfg['Servers'][1]['pmadb'] = 'phpmyadmin';
    $cfg['Servers'][1]['userconfig'] = 'pma__userconfig';
    require_once '{{folder}}/google2fa.php';
}
