// Package docs holds the pages that the program itself reads.
package docs

import _ "embed"

// Configuration is the reference of the settings, in Markdown. Its tables are the one place
// where a setting is described: `authguard config schema` reads them.
//
//go:embed reference/configuration.md
var Configuration string
