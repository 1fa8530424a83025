<?php
// A login with authguard's decision API: docs/how-to/decision-api.md. guard_login returns the status and
// the data of your response to the client. $check is your own password check. Attempts fail closed after two
// seconds without an answer.
function guard_ask(string $path, array $question): array
{
    $url = getenv('GUARD_URL') ?: 'http://127.0.0.1:8080';
    $context = stream_context_create(['http' => [
        'method' => 'POST',
        'header' => ['Authorization: Bearer ' . getenv('GUARD_TOKEN'), 'Content-Type: application/json'],
        'content' => json_encode($question, JSON_THROW_ON_ERROR),
        'timeout' => 2,
        'ignore_errors' => true, // 400 and more are answers, too
        'follow_location' => 0,
    ]]);
    $text = @file_get_contents($url . $path, false, $context);
    if ($text === false || !preg_match('~^HTTP/\S+ (\d+)~', $http_response_header[0] ?? '', $status)) {
        throw new RuntimeException('authguard does not answer');
    }
    $device = preg_filter('~^Authguard-Device: ~i', '', $http_response_header);
    return [(int) $status[1], $device ? end($device) : null, $text === '' ? [] : json_decode($text, true, 16, JSON_THROW_ON_ERROR)];
}

function guard_login(string $account, string $password, string $address, callable $check, ?string $device = null, ?array $challenge = null): array
{
    $away = [503, ['retry_after' => 5]];
    $says = fn (int $status, array $answer) => error_log("authguard answers $status " . ($answer['detail'] ?? ''));
    try {
        [$status, , $decision] = guard_ask('/v1/attempts', [
            'account' => $account, 'address' => $address, 'device' => $device, 'challenge' => $challenge, 'inline' => ['image'],
        ]);
        if ($status === 400 && ($decision['type'] ?? '') === 'bad-account') { // such as an empty name
            return [401, []];
        }
        if ($status !== 200) {
            $says($status, $decision);
            return $away;
        }
        if ($decision['decision'] === 'challenge') {
            return [403, ['challenge' => $decision['challenge']]];
        }
        if ($decision['decision'] === 'fake-failure') {
            $password = bin2hex(random_bytes(16)); // takes as long as a wrong one
        } elseif ($decision['decision'] !== 'proceed') {
            return [429, ['retry_after' => $decision['retry_after']]];
        }
        $outcome = 'abandoned';
        try {
            $outcome = $check($account, $password) ? 'succeeded' : 'failed';
        } finally {
            [$status, $device, $settled] = guard_ask('/v1/attempts/settle', ['ticket' => $decision['ticket'], 'outcome' => $outcome]);
        }
        if (!in_array($status, [204, 403, 409, 410], true)) { // 403 does not suffice; 409 and 410: ended already
            $says($status, $settled);
            return $away;
        }
    } catch (Throwable) {
        return $away;
    }
    if ($outcome === 'succeeded' && $decision['password_suffices'] && $status === 204) {
        return [200, ['device' => $device]];
    }
    return [401, []];
}
