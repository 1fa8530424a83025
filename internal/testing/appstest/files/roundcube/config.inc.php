<?php
$config['db_dsnw'] = 'sqlite:///{{folder}}/tmp/roundcube.db?mode=0640';
$config['imap_host'] = '127.0.0.1:{{imap}}';
$config['smtp_host'] = '';
$config['des_key'] = 'twenty-four-characters-!';
$config['temp_dir'] = '{{folder}}/tmp';
$config['log_dir'] = '{{folder}}/tmp';
$config['proxy_whitelist'] = ['127.0.0.1'];
$config['login_rate_limit'] = 0;
$config['skin'] = 'elastic';
