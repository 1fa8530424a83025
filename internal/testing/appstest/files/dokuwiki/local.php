<?php
$conf['title'] = 'Example';
$conf['useacl'] = 1;
$conf['superuser'] = '@admin';
$conf['authtype'] = 'authcount';
$conf['savedir'] = '{{folder}}/data';
$conf['remote'] = 1;
$conf['remoteuser'] = '';
