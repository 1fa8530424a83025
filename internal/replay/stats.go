package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Stats counts what became of every line.
type Stats struct {
	Files []FileStats `json:"files"`
	// Lines is the total; lines that are not attempts are Others or Bad.
	Lines  int64 `json:"lines"`
	Others int64 `json:"others"`
	Bad    int64 `json:"bad"`
	// First are the first unreadable lines, at most mostShown per file.
	First []BadLine `json:"bad_lines,omitempty"`
	// Attempts is the total; one line may stand for several.
	Attempts  int64 `json:"attempts"`
	Failed    int64 `json:"failed"`
	Succeeded int64 `json:"succeeded"`
	Stopped   int64 `json:"stopped,omitempty"`
	// Named is the number of attempts whose account the log names.
	Named int64 `json:"named"`
	// Late attempts appeared after a later one; Latest is the maximum delay.
	Late   int64         `json:"late,omitempty"`
	Latest time.Duration `json:"latest,omitempty"`
	// Year was assumed for the first line of a file whose times have none; zero: not assumed.
	Year int       `json:"assumed_year,omitempty"`
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// FileStats is the statistics of one file.
type FileStats struct {
	Path   string `json:"path"`
	Format string `json:"format"`
	Lines  int64  `json:"lines"`
}

// BadLine is an unreadable line.
type BadLine struct {
	Path string `json:"path"`
	Line int64  `json:"line"`
	Text string `json:"text"` // its first characters
	Why  string `json:"why"`
}

// mostShown is the maximum number of bad lines kept per file, shownLength their length.
const mostShown, shownLength = 5, 120

func (s *Stats) count(a *Attempt) {
	if s.Attempts == 0 {
		s.From = a.At
	}
	s.To = a.At
	s.Attempts++
	switch a.Outcome {
	case Succeeded:
		s.Succeeded++
	case Stopped:
		s.Stopped++
	default:
		s.Failed++
	}
	if a.Named {
		s.Named++
	}
}

func (s *Stats) add(f *file) {
	s.Files = append(s.Files, FileStats{f.path, f.format.name, f.lines})
	s.Lines, s.Others, s.Bad = s.Lines+f.lines, s.Others+f.others, s.Bad+f.bad
	s.Year = cmp.Or(f.year, s.Year)
	s.First = append(slices.Clone(s.First), f.first...)
}

// posts counts POSTs by path, to suggest login paths that Config.Logins lacks. After mostPosts paths, further ones are
// ignored.
type posts map[string]int64

const mostPosts = 1000

func (p posts) add(path string) {
	if n, ok := p[path]; ok || len(p) < mostPosts {
		p[path] = n + 1
	}
}

// OtherPosts returns the most frequent POST paths that are not logins, at most five: "/wp-login.php (1234)".
func (l *Log) OtherPosts() []string {
	all := posts{}
	for _, f := range l.files {
		for path, n := range f.posts {
			all[path] += n
		}
	}
	paths := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), strings.Compare(a, b))
	})
	var words []string
	for _, path := range paths[:min(5, len(paths))] {
		words = append(words, fmt.Sprintf("%s (%d)", path, all[path]))
	}
	return words
}
