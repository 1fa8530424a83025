// Command package writes deploy/Dockerfile's image without an engine, as an archive for
// `docker load` or `podman load`:
//
//	package PROGRAM CERTIFICATES DATE NAME:TAG ARCH OUT <deploy/Dockerfile
//
// The files are those that the Dockerfile's last RUN makes; what the image says of
// itself is read out of the Dockerfile. The same arguments give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if len(os.Args) != 7 {
		fmt.Fprintln(os.Stderr, "package PROGRAM CERTIFICATES DATE NAME:TAG ARCH OUT <deploy/Dockerfile")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

func write(program, certificates, date, tag, arch, out string) error {
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return err
	}
	to, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	dockerfile, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	files, err := layer(program, certificates, at)
	if err != nil {
		return err
	}
	one, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{Layer: one, History: v1.History{Created: v1.Time{Time: at},
		CreatedBy: "deploy/Dockerfile"}})
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = v1.Time{Time: at}, "linux", arch
	if config.Config, err = settings(string(dockerfile)); err != nil {
		return err
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	return tarball.WriteToFile(out, to, image)
}

// nobody is the user in the image.
const nobody = 65532

// layer is everything in the image.
func layer(program, certificates string, at time.Time) ([]byte, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	authorities, err := os.ReadFile(certificates)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name string
		mode int64
		of   int
		body []byte
	}{
		{"data/", 0o700, nobody, nil}, {"etc/", 0o755, 0, nil}, {"etc/passwd", 0o644, 0,
			[]byte("authguard:x:65532:65532::/data:/\n")},
		{"etc/ssl/", 0o755, 0, nil}, {"etc/ssl/certs/", 0o755, 0, nil}, {"etc/ssl/certs/ca-certificates.crt", 0o644, 0,
			authorities},
		{"keys/", 0o700, nobody, nil}, {"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil}, {"usr/local/", 0o755, 0, nil}, {"usr/local/bin/", 0o755, 0, nil}, {"usr/local/bin/authguard",
			0o755, 0, binary},
	} {
		h := &tar.Header{Name: f.name, Mode: f.mode, Uid: f.of, Gid: f.of, Size: int64(len(f.body)), ModTime: at,
			Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

// settings are what the Dockerfile's last stage says of the image. An instruction that
// is not understood is an error: an image that lacks it would be another.
func settings(dockerfile string) (c v1.Config, err error) {
	_, stage, _ := strings.Cut(dockerfile, "\nFROM scratch\n")
	c.Volumes, c.ExposedPorts = map[string]struct{}{}, map[string]struct{}{}
	list := func(text string) (words []string) {
		err = errors.Join(err, json.Unmarshal([]byte(text), &words))
		return words
	}
	for line := range strings.Lines(stage) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "", "#", "COPY":
		case "ENV":
			c.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
				strings.Fields(rest)...)
		case "USER":
			c.User = rest
		case "WORKDIR":
			c.WorkingDir = rest
		case "VOLUME":
			for _, path := range list(rest) {
				c.Volumes[path] = struct{}{}
			}
		case "EXPOSE":
			for _, port := range strings.Fields(rest) {
				c.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "HEALTHCHECK":
			c.Healthcheck, err = health(rest)
		case "ENTRYPOINT":
			c.Entrypoint = list(rest)
		case "CMD":
			c.Cmd = list(rest)
		default:
			return c, fmt.Errorf("the Dockerfile's %s is not understood", word)
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
	}
	return c, nil
}

var check = regexp.MustCompile(`^--interval=(\S+) --timeout=(\S+) --start-period=(\S+) --retries=3 CMD (\[.+\])$`)

func health(text string) (*v1.HealthConfig, error) {
	m := check.FindStringSubmatch(text)
	if m == nil {
		return nil, errors.New("not understood")
	}
	h, words := &v1.HealthConfig{Retries: 3}, []string(nil)
	err := json.Unmarshal([]byte(m[4]), &words)
	h.Test = append([]string{"CMD"}, words...)
	for i, d := range []*time.Duration{&h.Interval, &h.Timeout, &h.StartPeriod} {
		var bad error
		*d, bad = time.ParseDuration(m[i+1])
		err = errors.Join(err, bad)
	}
	return h, err
}
