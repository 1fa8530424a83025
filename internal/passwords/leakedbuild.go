package passwords

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/FastFilter/xorfilter"
)

// A ListBuild makes a list's file. Its memory does not depend on the number of passwords: the keys are first written to
// temporary files beside the output, by their first bits.
type ListBuild struct {
	// From are files, and folders of files: with hashes, as Have I Been Pwned offers them, or with passwords.
	From   []string
	Output string
	// MinCount leaves out hashes that occur less often. 0: 1.
	MinCount int

	kind     LeakedHash
	read, of atomic.Int64
	folder   string // of temporary files
	shards   [1 << shardBits]shard
}

// BuiltList is the result of a ListBuild.
type BuiltList struct {
	File      string `json:"file"`
	Hash      string `json:"hash"` // SHA-1 or NTLM
	Passwords uint64 `json:"passwords"`
	Bytes     int64  `json:"bytes"`
}

// A shard has the keys with the same first bits: the first ones in a file, unless there are few.
type shard struct {
	file  *os.File
	last  []byte // packed keys
	count int
}

// spilled is how many bytes of a shard are in memory at most.
const spilled = 1 << 15

// Progress returns how many bytes were read, and of how many.
func (b *ListBuild) Progress() (read, of int64) { return b.read.Load(), b.of.Load() }

// Run builds the file. The output is replaced atomically, and stays as it was after an error.
func (b *ListBuild) Run(ctx context.Context) (built BuiltList, err error) {
	b.MinCount = max(1, b.MinCount)
	paths, err := b.paths()
	if err != nil {
		return built, err
	}
	if b.folder, err = os.MkdirTemp(filepath.Dir(b.Output), ".password-list-"); err != nil {
		return built, err
	}
	defer os.RemoveAll(b.folder)
	defer b.close()
	for _, path := range paths {
		if err := b.readFile(ctx, path); err != nil {
			return built, err
		}
	}
	file, err := os.OpenFile(filepath.Join(b.folder, "new"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return built, err
	}
	defer file.Close()
	if built.Passwords, err = b.write(ctx, file); err != nil {
		return built, err
	}
	info, err := file.Stat()
	if err != nil {
		return built, err
	}
	built.File, built.Hash, built.Bytes = b.Output, b.kind.String(), info.Size()
	return built, os.Rename(file.Name(), b.Output)
}

// paths returns all files, and sets the number of bytes to read.
func (b *ListBuild) paths() (all []string, err error) {
	for _, from := range b.From {
		err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := os.Stat(path)
			if err == nil {
				b.of.Add(info.Size())
				all = append(all, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (b *ListBuild) close() {
	for i := range b.shards {
		if f := b.shards[i].file; f != nil {
			_ = f.Close()
		}
	}
}

func (b *ListBuild) add(key uint64) (err error) {
	at := key >> (64 - shardBits)
	s := &b.shards[at]
	s.count++
	if s.last = binary.LittleEndian.AppendUint64(s.last, key); len(s.last) < spilled {
		return nil
	}
	if s.file == nil {
		if s.file, err = os.Create(filepath.Join(b.folder, strconv.FormatUint(at, 10))); err != nil {
			return err
		}
	}
	_, err = s.file.Write(s.last)
	s.last = s.last[:0]
	return err
}

// appendTo appends the shard's keys.
func (s *shard) appendTo(keys []uint64) ([]uint64, error) {
	from := io.Reader(bytes.NewReader(s.last))
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		from = io.MultiReader(bufio.NewReader(s.file), from)
	}
	at := len(keys)
	keys = slices.Grow(keys, s.count)[:at+s.count]
	return keys, binary.Read(from, binary.LittleEndian, keys[at:])
}

// fewest keys of a part: a smaller part needs more bits per key.
const fewest = 1_000_000

// write writes the list, and returns the number of passwords.
func (b *ListBuild) write(ctx context.Context, file *os.File) (passwords uint64, err error) {
	count := 0
	for i := range b.shards {
		count += b.shards[i].count
	}
	if count == 0 {
		return 0, errors.New("there are no passwords to put on the list")
	}
	start := header{Magic: magic, Version: version, Kind: b.kind,
		Bits: uint8(min(shardBits, max(1, bits.Len(uint(count/fewest)))-1))}
	out, sum := bufio.NewWriterSize(file, 1<<20), sha256.New()
	into := io.MultiWriter(out, sum)
	if err := binary.Write(into, binary.LittleEndian, start); err != nil {
		return 0, err
	}
	builder, each := new(xorfilter.BinaryFuseBuilder), len(b.shards)>>start.Bits
	for shards := range slices.Chunk(b.shards[:], each) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n, err := writePart(into, builder, shards)
		if err != nil {
			return 0, err
		}
		passwords += uint64(n)
	}
	if err := binary.Write(into, binary.LittleEndian, passwords); err != nil {
		return 0, err
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		return 0, err
	}
	if err := out.Flush(); err != nil {
		return 0, err
	}
	return passwords, file.Sync()
}

// writePart writes the part of these shards, and returns the number of its keys.
func writePart(into io.Writer, builder *xorfilter.BinaryFuseBuilder, shards []shard) (n int, err error) {
	var keys []uint64
	for i := range shards {
		if keys, err = shards[i].appendTo(keys); err != nil {
			return 0, err
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) == 0 {
		return 0, binary.Write(into, binary.LittleEndian, partHeader{})
	}
	f, err := xorfilter.BuildBinaryFuse[uint8](builder, keys)
	if err == nil {
		err = binary.Write(into, binary.LittleEndian, partHeader{f.Seed, f.SegmentLength, f.SegmentCount})
	}
	if err == nil {
		_, err = into.Write(f.Fingerprints)
	}
	return len(keys), err
}
