<?php
// Two apps that turn a signed-in visitor away from their login, as Laravel's guest does.
// /login keeps the session in an encrypted cookie, another one in each answer, with one
// token for all of its forms. /single/login keeps it on the server, with one token that
// each showing of the form makes anew, and that is good once.
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$single = str_starts_with($path, '/single/');
$base = $single ? '/single' : '';
$key = hash('sha256', 'not a secret', true);
if ($single) {
    session_save_path('{{folder}}/tmp');
    session_name('single_session');
    session_start();
    $session = &$_SESSION;
} else {
    $sent = base64_decode($_COOKIE['laravel_session'] ?? '');
    $plain = openssl_decrypt(substr($sent, 16), 'aes-256-cbc', $key, OPENSSL_RAW_DATA, substr($sent, 0, 16));
    $session = json_decode($plain ?: '{}', true);
    $session['token'] ??= bin2hex(random_bytes(16));
}

function answer(string $body, string $location = ''): never
{
    global $session, $single, $key;
    if (!$single) {
        $iv = random_bytes(16);
        $value = base64_encode($iv . openssl_encrypt(json_encode($session), 'aes-256-cbc', $key, OPENSSL_RAW_DATA, $iv));
        setcookie('laravel_session', $value, ['path' => '/', 'httponly' => true, 'samesite' => 'Lax', 'expires' => time() + 7200]);
    }
    if ($location !== '') {
        header('Location: ' . $location, true, 302);
    }
    exit($body);
}

function right(string $name, string $password): bool
{
    file_put_contents('{{guesses}}', $name . "\n", FILE_APPEND | LOCK_EX);
    return in_array($name, ['{{user}}', 'mallory']) && $password === '{{password}}';
}

$user = $session['user'] ?? '';
switch ($path) {
    case $base . '/account':
        $user === '' ? answer('', $base . '/login') : answer('Hello ' . htmlspecialchars($user));
    case $base . '/login':
        if ($user !== '' && $_SERVER['REQUEST_METHOD'] === 'GET') {
            answer('', $base . '/account');
        }
        $failed = '';
        if ($_SERVER['REQUEST_METHOD'] === 'POST') {
            $token = $session['token'] ?? '';
            if ($single) {
                unset($session['token']);
            }
            if ($token === '' || !hash_equals($token, $_POST['_token'] ?? '')) {
                http_response_code(419);
                answer('Page Expired');
            }
            if ($user !== '') {
                answer('', $base . '/account');
            }
            if (right($_POST['username'] ?? '', $_POST['password'] ?? '')) {
                $single && session_regenerate_id(true);
                $session = ['user' => $_POST['username'], 'token' => bin2hex(random_bytes(16))];
                answer('', $base . '/account');
            }
            $failed = '<p>The password is wrong.</p>';
        }
        if ($single) {
            $session['token'] = bin2hex(random_bytes(16));
        }
        answer($failed . '<form method="post"><input type="hidden" name="_token" value="' . $session['token'] .
            '"><input name="username"><input name="password" type="password"><button>Log in</button></form>');
}
answer('Welcome');
