package captchamode

// AdoptOverride makes a word that a person said on another node the mode here too: on,
// off, or automatic again. It reports whether that changed anything. The switch
// that it makes is marked Adopted.
//
// The other node has checked the word, by its own clock. Here one that has run
// out is a return to automatic, and none lasts longer than MaxForce.
func (m *Mode) AdoptOverride(f Force) (changed bool) {
	now := m.now()
	if f.Word != ForcedOn && f.Word != ForcedOff || !f.Until.After(now) {
		f.Word = Automatic
	}
	if latest := now.Add(MaxForce); f.Until.After(latest) {
		f.Until = latest
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	if f.same(m.force) {
		return false
	}
	m.switchTo(f, ByPerson, true, now)
	if f.Word == Automatic {
		m.force = Force{}
	}
	return true
}

// same compares to the millisecond, which is what a database keeps.
func (f Force) same(g Force) bool {
	if f.Word == Automatic || g.Word == Automatic {
		return f.Word == g.Word
	}
	return f.Word == g.Word && f.Who == g.Who && f.Why == g.Why &&
		f.Since.UnixMilli() == g.Since.UnixMilli() && f.Until.UnixMilli() == g.Until.UnixMilli()
}
