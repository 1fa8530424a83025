package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"authguard/internal/config"
	"authguard/web/pages"
	"authguard/web/texts"
)

func (r *realm) dress(c config.Config) error {
	look, missing, err := openLook(c.Pages)
	if err != nil {
		return err
	}
	for _, one := range missing {
		r.log.Warn("pages.texts: a translation is incomplete; missing texts are shown in English", "file", one)
	}
	r.look.Set(look)
	return nil
}

// checkLooks reads the files of every realm and returns the missing translations.
func checkLooks(c config.Config) (missing []string, err error) {
	_, missing, err = openLook(c.Pages)
	for _, r := range c.Realms {
		_, own, one := openLook(r.Pages)
		if one != nil {
			err = errors.Join(err, fmt.Errorf("realms.%s: %w", r.Name, one))
		}
		missing = append(missing, own...)
	}
	slices.Sort(missing)
	return slices.Compact(missing), err
}

// openLook reads the files of the settings. missing has one line per language.
func openLook(p config.Pages) (look *pages.Look, missing []string, err error) {
	languages := texts.Standard() // shared by all realms: half a megabyte
	if p.Texts != "" {
		if languages, err = texts.New(os.DirFS(p.Texts)); err != nil {
			return nil, nil, fmt.Errorf("pages.texts: the texts in %s cannot be used:\n%w", p.Texts, err)
		}
	}
	brand := pages.Brand{Name: p.Name, Colour: p.Color, Help: p.HelpURL, Forgot: p.ForgotURL}
	if p.Logo != "" {
		if brand.Logo, err = readAtMost(p.Logo, pages.LargestLogo); err != nil {
			return nil, nil, fmt.Errorf("pages.logo: %w", err)
		}
	}
	if look, err = pages.NewLook(brand, languages); err != nil {
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
