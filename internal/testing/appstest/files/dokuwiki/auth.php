<?php
// DokuWiki's own accounts, and a line for every password that it looks at.
class auth_plugin_authcount extends auth_plugin_authplain
{
    public function checkPass($user, $pass)
    {
        file_put_contents('{{guesses}}', json_encode([$user, $_SERVER['REQUEST_URI']]) . "\n", FILE_APPEND | LOCK_EX);
        return parent::checkPass($user, $pass);
    }
}
