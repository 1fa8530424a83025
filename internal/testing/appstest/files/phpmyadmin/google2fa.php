<?php
// What phpMyAdmin asks of pragmarx/google2fa-qrcode. It writes a line for every code that it checks.
namespace PragmaRX\Google2FAQRCode {
    class Google2FA
    {
        public function setWindow($window)
        {
        }

        public function verifyKey($secret, $code)
        {
            file_put_contents('{{folder}}/codes', "code\n", FILE_APPEND | LOCK_EX);
            $bits = '';
            foreach (str_split($secret) as $letter) {
                $bits .= sprintf('%05b', strpos('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', $letter));
            }
            $key = implode('', array_map(fn ($byte) => chr(bindec($byte)), str_split(substr($bits, 0, strlen($bits) & ~7), 8)));
            foreach ([-1, 0, 1] as $step) {
                $hash = hash_hmac('sha1', pack('J', intdiv(time(), 30) + $step), $key, true);
                $number = unpack('N', $hash, ord($hash[19]) & 15)[1] & 0x7fffffff;
                if (hash_equals(sprintf('%06d', $number % 1000000), $code)) {
                    return true;
                }
            }
            return false;
        }
    }
}

namespace BaconQrCode\Renderer {
    class ImageRenderer
    {
    }
}
