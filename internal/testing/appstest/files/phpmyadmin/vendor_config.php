<?php
// Debian's, but for where this copy keeps what it writes.
return array_merge(require '/usr/share/phpmyadmin/libraries/vendor_config.php', [
    'tempDir' => '{{folder}}/tmp/',
    'configFile' => '{{folder}}/config.inc.php',
]);
