package lists

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// read is what a file says: its ranges, separated by spaces, and "line:problem" of what
// is bad.
func read(t *testing.T, l Layout, text string) (ranges, bad string, err error) {
	t.Helper()
	err = eachLine(strings.NewReader(text), l, false, func(one line, problem error) {
		if problem != nil {
			bad += string(rune('0'+one.number)) + ":" + Words(problem) + "\n"
			return
		}
		for _, p := range one.ranges {
			ranges += p.String() + " "
		}
	})
	return strings.TrimSpace(ranges), bad, err
}

func TestFilesAsTheyArePublishedAreRead(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		layout Layout
		text   string
		want   string
	}{
		"FireHOL netset":  {Layout{Format: Plain}, "#\n# firehol_level1\n#\n1.2.3.4\n5.6.0.0/16\n", "1.2.3.4/32 5.6.0.0/16"},
		"Spamhaus DROP":   {Layout{Format: Plain}, "; Spamhaus DROP List 2016/08/30\n; Expires: soon\n1.4.0.0/17 ; SBL256893\r\n1.10.16.0/20 ; SBL256894\r\n", "1.4.0.0/17 1.10.16.0/20"},
		"Tor exits":       {Layout{Format: Plain}, "\xEF\xBB\xBF185.220.101.1\n2a0b:f4c2::1\n", "185.220.101.1/32 2a0b:f4c2::1/128"},
		"reputation":      {Layout{Format: Plain}, "49.143.32.6 # Malicious Host KR,,37.5,126.9\n", "49.143.32.6/32"},
		"ranges":          {Layout{Format: Plain}, "192.0.2.0-192.0.2.10\n198.51.100.0 - 198.51.100.255 # one\n", "192.0.2.0/29 192.0.2.8/31 192.0.2.10/32 198.51.100.0/24"},
		"ipcat":           {Layout{Format: IPCat}, "start,end,company,url\n27.0.0.0,27.0.3.255,Amazon AWS,http://www.amazon.com/aws/\n27.131.64.0,27.131.64.2,\"A, b\",x\n", "27.0.0.0/22 27.131.64.0/31 27.131.64.2/32"},
		"tabs and counts": {Layout{Format: Scored, MinScore: 3}, "# IPsum\n1.1.1.2\t9\n1.1.1.3\t2\n1.1.1.4\t3\n", "1.1.1.2/32 1.1.1.4/32"},
		"CSV with scores": {Layout{Format: Scored, Column: 3, MinScore: 90}, "ip,country,score,reported\n1.1.1.2,KR,100,2026\n1.1.1.3,US,40,2026\n2001:db8::1,US,90.0,2026\n", "1.1.1.2/32 2001:db8::1/128"},
	} {
		ranges, bad, err := read(t, one.layout, one.text)
		if ranges != one.want || bad != "" || err != nil {
			t.Errorf("%s: %q, bad %q, %v; want %q", name, ranges, bad, err, one.want)
		}
	}
}

func TestEachBadLineIsNamed(t *testing.T) {
	t.Parallel()
	ranges, bad, err := read(t, Layout{Format: Plain}, "1.2.3.4\n\nnot an address\n<img src=x onerror=alert(1)>\n0.0.0.0/0\n1.2.3.9-1.2.3.4\n"+
		strings.Repeat("9", 5000)+"\n10.0.0.1 fine\n")
	want := `3:not an address or range: "not"; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48
4:not an address or range: "<img"; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48
5:the range holds every IP address
6:"1.2.3.9"-"1.2.3.4" is not a range: write its first and its last address
7:is longer than 4096 bytes
`
	if err != nil || ranges != "1.2.3.4/32 10.0.0.1/32" || bad != want {
		t.Errorf("%q, %v, bad:\n%swant:\n%s", ranges, err, bad, want)
	}
	for text, want := range map[string]string{
		"1.1.1.1\n":     `1:"1.1.1.1" has no column 2` + "\n",
		"1.1.1.1 bad\n": `1:"bad" in column 2 is not a number` + "\n",
	} {
		if _, bad, _ := read(t, Layout{Format: Scored}, text); bad != want {
			t.Errorf("scored: %q, want %q", bad, want)
		}
	}
	if _, bad, _ := read(t, Layout{Format: IPCat}, "1.2.3.4\n0.0.0.0,255.255.255.255,all,x\n"); !strings.HasPrefix(bad, "1:\"1.2.3.4\" must be first address") || !strings.Contains(bad, "2:the range holds every") {
		t.Errorf("ipcat: %q", bad)
	}
}

// 192.0.2.0/24 that is cut off in the middle is 192.0.2.0/2, a quarter of the internet.
func TestAFileWithoutAnEndIsNotBelieved(t *testing.T) {
	t.Parallel()
	whole := "198.51.100.0/24\n192.0.2.0/24\n"
	for n := 1; n < len(whole); n++ {
		_, _, err := read(t, Layout{Format: Plain}, whole[:n])
		if cut := whole[n-1] != '\n'; errors.Is(err, errUnfinished) != cut {
			t.Errorf("%q: %v", whole[:n], err)
		}
	}
}

func FuzzLines(f *testing.F) {
	for _, seed := range []string{"1.2.3.4", "1.2.3.4 - 1.2.3.9 # x", "a,b,c\n1.1.1.1,1.1.1.9,x", "::-::ffff", "1.1.1.1 5", "\xEF\xBB\xBF\n;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, layout := range []Layout{{Format: Plain}, {Format: IPCat}, {Format: Scored, MinScore: 1}} {
			_ = eachLine(strings.NewReader(text), layout, true, func(one line, problem error) {
				for _, p := range one.ranges {
					if problem == nil && (!p.IsValid() || p.Bits() == 0 || p != p.Masked()) {
						t.Errorf("%q has the range %v", text, p)
					}
				}
			})
		}
	})
}

func TestARangeIsExactlyItsAddresses(t *testing.T) {
	t.Parallel()
	for from := range 40 {
		for to := from; to < 70; to++ {
			all, err := between(addr(from), addr(to))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i := range 100 {
				in := 0
				for _, p := range all {
					if p.Contains(netip.MustParseAddr(addr(i))) {
						in++
					}
				}
				if in > 1 || in == 1 != (i >= from && i <= to) {
					t.Fatalf("%d-%d: %d is in %d of %v", from, to, i, in, all)
				}
				n += in
			}
		}
	}
	if all, err := between("255.255.255.254", "255.255.255.255"); err != nil || len(all) != 1 {
		t.Errorf("the end of the internet is %v, %v", all, err)
	}
}

func addr(n int) string { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}).String() }

func TestAnImportHasNotesAndNamesWhatIsBad(t *testing.T) {
	t.Parallel()
	i := ReadImport("192.0.2.1 scanner, seen twice\n192.0.2.1\n; comment\n198.51.100.0-198.51.100.1\tx\nbad\n::1 " + strings.Repeat("n", 501) + "\n203.0.113.7")
	if len(i.Items) != 3 || i.Items[0].Note != "scanner, seen twice" || i.Items[1].Prefix.String() != "198.51.100.0/31" || i.Items[2].Line != 7 || i.Twice != 1 {
		t.Errorf("read %+v", i)
	}
	if len(i.Problems) != 2 || i.Problems[0].Line != 5 || i.Problems[1].Line != 6 {
		t.Errorf("problems %+v", i.Problems)
	}
	if large := ReadImport(strings.Repeat("1.2.3.4\n", MaxImport/8+1)); len(large.Items) != 0 || len(large.Problems) != 1 {
		t.Errorf("a large text: %d, %v", len(large.Items), large.Problems)
	}
	var many strings.Builder
	for n := range MaxImported + 2 {
		many.WriteString(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String() + "\n")
	}
	if i := ReadImport(many.String()); len(i.Items) != MaxImported || len(i.Problems) != 2 {
		t.Errorf("too many: %d and %d problems", len(i.Items), len(i.Problems))
	}
}
