<?php
// A line for every password that WordPress looks at: the form's, and each of a
// call of XML-RPC.
add_filter('authenticate', function ($user, $username, $password) {
    if ($username !== '' && $password !== '') {
        file_put_contents('{{guesses}}', json_encode([$username, $_SERVER['REQUEST_URI']]) . "\n", FILE_APPEND | LOCK_EX);
    }
    return $user;
}, 1, 3);
