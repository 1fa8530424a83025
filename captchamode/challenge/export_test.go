package challenge

// Lines is how many addresses the gallery of an extension knows of.
func (d *Issuer) Lines(ext string) int {
	g := d.galleries[ext]
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines)
}
