// Package admin is the administration: the pages for people, the JSON API for
// programs, and the socket through which commands reach a running server.
//
// It shows what package control knows and asks it for what is to change.
// Logging in and out is package web's: mount a web.Login with Admin set beside
// Routes, over the same Sessions.
package admin
