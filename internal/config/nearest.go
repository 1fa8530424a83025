package config

// nearest is the candidate that word is most likely a slip of, or empty if
// none is close: a third of its letters may differ. Words longer than any name
// cost nothing.
func nearest(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		if d := distance(word, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is how many letters have to be added, dropped, replaced or swapped
// with their neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			rows[i][j] = min(rows[i-1][j], rows[i][j-1]) + 1
			rows[i][j] = min(rows[i][j], rows[i-1][j-1]+differ(a[i-1], b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func differ(x, y byte) int {
	if x == y {
		return 0
	}
	return 1
}
