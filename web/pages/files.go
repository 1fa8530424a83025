package pages

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"authguard/internal/config"
	"authguard/web/texts"
)

// CheckFiles reads the files of every realm and returns the missing translations.
func CheckFiles(c config.Config) (missing []string, err error) {
	_, missing, err = OpenLook(c.Pages)
	for _, r := range c.Realms {
		_, own, one := OpenLook(r.Pages)
		if one != nil {
			err = errors.Join(err, fmt.Errorf("realms.%s: %w", r.Name, one))
		}
		missing = append(missing, own...)
	}
	slices.Sort(missing)
	return slices.Compact(missing), err
}

// OpenLook reads the files of the settings. missing has one line per language.
func OpenLook(p config.Pages) (look *Look, missing []string, err error) {
	languages := texts.Standard() // shared by all realms: half a megabyte
	if p.Texts != "" {
		if languages, err = texts.New(os.DirFS(p.Texts)); err != nil {
			return nil, nil, fmt.Errorf("pages.texts: the texts in %s cannot be used:\n%w", p.Texts, err)
		}
	}
	brand := Brand{Name: p.Name, Colour: p.Color, Help: p.HelpURL, Forgot: p.ForgotURL}
	if p.Logo != "" {
		if brand.Logo, err = readAtMost(p.Logo, LargestLogo); err != nil {
			return nil, nil, fmt.Errorf("pages.logo: %w", err)
		}
	}
	if look, err = NewLook(brand, languages); err != nil {
		return nil, nil, err
	}
	return look, languages.Missing(), nil
}

// readAtMost reads a file, up to one byte more than most.
func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	body, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(body) == 0 {
		err = errors.New(path + " is empty")
	}
	return body, err
}
