package failures

// SetBound has a store keep to fewer bytes than New allows, so that a test reaches
// the bound with few keys.
func (m *Memory) SetBound(bytes int64) { m.max = bytes }

// CloseJournal has the next write to the journal fail.
func (m *Memory) CloseJournal() { _ = m.journal.file.Close() }

// StartedWithClockBehind makes the store one whose process started with its wall clock behind by this many milliseconds.
func (m *Memory) StartedWithClockBehind(by int64) { m.epoch -= by }
