// Package captchamode is the site-wide switch: it watches the pressure on a
// site, turns the pre-login CAPTCHA on when the pressure says "attack" and off
// when it has been quiet for the whole cool-down (rule R20), and lets a person
// overrule it for a time (R21). What people are asked to solve is in
// captchamode/challenge.
//
// Several nodes are one site: captchamode/redismode keeps their Modes together,
// and a Mode goes on alone when it cannot be heard (R22).
package captchamode
