
// What the tests add to the installer's settings.
$wgServer = 'http://127.0.0.1:8080';
$wgCdnServersNoPurge = ['127.0.0.1'];
$wgServer = WebRequest::detectServer( false ); // with authguard and without
$wgEnableUploads = true;
$wgUploadDirectory = '{{folder}}/images';
$wgFileExtensions[] = 'txt';
$wgMainCacheType = CACHE_NONE;
$wgCacheDirectory = '{{folder}}/tmp';
$wgHooks['AuthManagerLoginAuthenticateAudit'][] = function ( $response, $user, $name ) {
	file_put_contents( '{{guesses}}', json_encode( [ lcfirst( $name ), $response->status ] ) . "\n", FILE_APPEND | LOCK_EX );
};
// OATHAuth asks before it checks a code whether there were too many, which this never says.
$wgHooks['PingLimiter'][] = function ( $user, $action, &$result, $increment ) {
	if ( $action === 'badoath' && $increment === 0 ) {
		file_put_contents( '{{folder}}/codes', $user->getName() . "\n", FILE_APPEND | LOCK_EX );
	}
	return $result = false;
};
