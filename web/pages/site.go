package pages

// Site is what every page shows around its content. The zero Site is called
// "authguard" and takes its files from /static.
type Site struct {
	// Name is what people know the site by.
	Name string
	// Assets is the URL path under which web/static is served, without a
	// slash at the end. Change it where an app behind the proxy owns /static.
	Assets string
}

// Title is the site's name, never empty.
func (s Site) Title() string {
	if s.Name == "" {
		return "authguard"
	}
	return s.Name
}

// Asset is the path of one static file.
func (s Site) Asset(file string) string {
	if s.Assets == "" {
		return "/static/" + file
	}
	return s.Assets + "/" + file
}

// frame is what the templates "top" and "bottom" need.
type frame struct {
	Site   Site
	Title  string
	Script string
	PoW    bool
	Wide   bool
}
