<?php
$cfg['blowfish_secret'] = 'thirty-two characters of a test.';
$cfg['Servers'][1]['auth_type'] = 'cookie';
$cfg['Servers'][1]['host'] = 'localhost';
$cfg['Servers'][1]['socket'] = '{{socket}}';
