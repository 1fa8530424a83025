package config

import (
	"cmp"
	"fmt"
	"slices"

	"authguard/guard"
	"authguard/internal/lists"
)

func (c Config) namedLists() (all []guard.NamedList) {
	for _, l := range c.Lists {
		all = append(all, guard.NamedList{
			Name: l.Name, Limits: l.Limits,
			Verdict: map[ListVerdict]guard.Verdict{ListBlock: guard.Blocked, ListAllow: guard.Allowed}[l.Action],
		})
	}
	return all
}

// Sources returns the IP lists of all realms, one per name.
func (c Config) Sources() (all []lists.Source) {
	named := slices.Clone(c.Lists)
	for _, r := range c.Realms {
		named = append(named, r.Lists...)
	}
	at := map[string]int{}
	for _, l := range named {
		i, seen := at[l.Name]
		if !seen {
			i, at[l.Name] = len(all), len(all)
			all = append(all, l.source())
		}
		all[i].Actions += string(l.Action) + " "
	}
	return all
}

func (l List) source() lists.Source {
	layout := lists.Layout{Format: lists.Format(cmp.Or(l.Format, ListPlain)), MinScore: l.MinScore}
	if layout.Format == lists.Scored {
		layout.Column = cmp.Or(l.Column, 2)
	}
	return lists.Source{Name: l.Name, File: l.File, Layout: layout}
}

// lists checks what package guard cannot.
func (l *loader) lists() {
	for i, one := range l.loaded.Config.Lists {
		at := fmt.Sprintf("lists[%d].", i)
		l.unless(one.File != "", at+"file", "", "must be the path of the file with the addresses")
		l.unless(slices.Contains([]ListFormat{"", ListPlain, ListIPCat, ListScored}, one.Format), at+"format", "",
			"must be plain, ipcat or scored, not %.60q", one.Format)
		l.unless(slices.Contains([]ListVerdict{"", ListLimits, ListBlock, ListAllow}, one.Action), at+"action", "",
			"must be limits, block or allow, not %.60q", one.Action)
		scored := one.Format == ListScored
		l.unless(scored || one.Column == 0 && one.MinScore == 0, at+"format", "",
			"must be scored, because column or min_score is set")
		l.unless(!scored || one.Column == 0 || one.Column > 1 && one.Column <= 100, at+"column", "",
			"must be from 2 to 100: the address is in the first")
	}
}

// listsOfRealms checks that each list name stands for one file.
func (l *loader) listsOfRealms() {
	first := map[string]lists.Source{}
	for _, s := range l.loaded.Config.Sources() {
		s.Actions = ""
		first[s.Name] = s
	}
	for i, r := range l.loaded.Config.Realms {
		for j, one := range r.Lists {
			l.unless(first[one.Name] == one.source(), fmt.Sprintf("realms[%d].lists[%d].file", i, j), "",
				"must equal that of the other list named %s (%s), like format and min_score: one name means one list in all realms",
				one.Name, first[one.Name].File)
		}
	}
}
