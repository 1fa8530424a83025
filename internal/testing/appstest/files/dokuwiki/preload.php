<?php
define('DOKU_MAIN_CONF', '{{folder}}/conf/');
define('DOKU_CONF', '{{folder}}/conf/');
