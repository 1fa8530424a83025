<?php
$database = new PDO('sqlite:{{folder}}/data/wiki.sqlite');
$database->prepare("INSERT INTO oathauth_users (id, module, data) VALUES (1, 'totp', ?)")
    ->execute([json_encode(['keys' => [['secret' => '{{secret}}', 'scratch_tokens' => []]]])]);
