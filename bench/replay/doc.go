// Package replay measures how fast `authguard limit replay` evaluates a policy on logs, beside reading
// their lines and beside GoAccess's parser. It measures CPU time, which hardly depends on other load.
package replay
