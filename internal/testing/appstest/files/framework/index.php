<?php
// The last word of a path says how the app reads its body.
$reader = basename(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
if ($_SERVER['REQUEST_METHOD'] !== 'POST' && $reader !== 'request') {
    exit('Welcome');
}
if ($reader === 'upload') {
    exit((string) filesize($_FILES['file']['tmp_name']));
}
$body = file_get_contents('php://input');
$sent = match ($reader) {
    'form' => $_POST,
    'request' => $_REQUEST,
    'json' => json_decode($body, true) ?? $_POST,
    'part' => json_decode($_POST['data'] ?? '', true),
    'basic' => array_combine(['username', 'password'],
        array_pad(explode(':', base64_decode(substr($_SERVER['HTTP_AUTHORIZATION'] ?? '', 6)), 2), 2, null)),
    'xml' => (array) simplexml_load_string($body),
};
$name = $sent['username'] ?? null;
$password = $sent['password'] ?? null;
if (!is_string($name) || !is_string($password)) {
    http_response_code(400);
    exit('no login');
}
file_put_contents('{{guesses}}', "$name $password\n", FILE_APPEND | LOCK_EX);
if ([$name, $password] === ['{{user}}', '{{password}}']) {
    header('Location: /account/home', true, 302);
    exit;
}
http_response_code(401);
exit('wrong');
