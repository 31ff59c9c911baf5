// Package snaparchive is the file format of a saved snapshot: a gzip'd tar of meta.json (what it is),
// state.bin (Raft's snapshot as the state machine wrote it) and SHA256SUMS (the sums of both, in the form
// that sha256sum -c reads), in this order.
//
// Nothing of an archive may be used before Read has returned without error: the sums come last. What is
// inside state.bin is left to the state machine.
package snaparchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"berth/structs"
)

// Meta says what a snapshot is of.
type Meta struct {
	Index   uint64    // Raft index of the last entry in it
	Term    uint64    // the term of that entry
	Version string    // the berth that wrote it
	Created time.Time // when it was saved
	Region  string    `json:",omitempty"`
}

const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"
	smallSize = 1 << 20 // no honest meta.json or SHA256SUMS is larger
)

// Write writes an archive with exactly size bytes of state.
func Write(w io.Writer, meta Meta, size int64, state io.Reader) error {
	zip := gzip.NewWriter(w)
	out := &writer{tar: tar.NewWriter(zip), at: meta.Created}
	head, err := json.MarshalIndent(meta, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", metaName, err)
	}
	if err := out.file(metaName, int64(len(head)), bytes.NewReader(head)); err != nil {
		return err
	}
	if err := out.file(stateName, size, state); err != nil {
		return err
	}
	if err := out.file(sumsName, int64(out.sums.Len()), bytes.NewReader(bytes.Clone(out.sums.Bytes()))); err != nil {
		return err
	}
	return errors.Join(out.tar.Close(), zip.Close())
}

type writer struct {
	tar  *tar.Writer
	at   time.Time
	sums bytes.Buffer
}

func (w *writer) file(name string, size int64, r io.Reader) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: w.at, Format: tar.FormatPAX}
	if err := w.tar.WriteHeader(head); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, sum), r)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes instead of %d", n, size)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	fmt.Fprintf(&w.sums, "%x  %s\n", sum.Sum(nil), name)
	return nil
}

// Read reads an archive and copies its state to w. Only when it returns without error is what went to w
// whole and what was written. Its errors are invalid, save w's own.
func Read(r io.Reader, w io.Writer) (*Meta, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, bad("not a snapshot archive: %w", err)
	}
	in := &reader{tar: tar.NewReader(zip)}
	var head, sums bytes.Buffer
	if err := in.file(metaName, smallSize, &head); err != nil {
		return nil, err
	}
	meta := &Meta{}
	if err := json.Unmarshal(head.Bytes(), meta); err != nil {
		return nil, bad("%s: %w", metaName, err)
	}
	if meta.Index > structs.MaxArchiveIndex || meta.Term > structs.MaxArchiveIndex {
		return nil, bad("%s: the index %d or the term %d is larger than %d",
			metaName, meta.Index, meta.Term, uint64(structs.MaxArchiveIndex))
	}
	if err := in.file(stateName, structs.MaxArchive, w); err != nil {
		return nil, err
	}
	want := bytes.Clone(in.sums.Bytes())
	if err := in.file(sumsName, smallSize, &sums); err != nil {
		return nil, err
	}
	if !bytes.Equal(sums.Bytes(), want) {
		return nil, bad("the archive is damaged: its contents do not match %s", sumsName)
	}
	return meta, in.end(zip)
}

type reader struct {
	tar  *tar.Reader
	sums bytes.Buffer
}

// file reads the next file, which must be name and no longer than limit.
func (r *reader) file(name string, limit int64, w io.Writer) error {
	head, err := r.tar.Next()
	if err != nil {
		return bad("reading %s: %w", name, unexpected(err))
	}
	if head.Name != name || head.Typeflag != tar.TypeReg {
		return bad("found %q, expected %s", head.Name, name)
	}
	if head.Size > limit {
		return bad("%s has %d bytes; an archive can have %d", name, head.Size, limit)
	}
	sum := sha256.New()
	out := &sink{w: w}
	if _, err := io.Copy(io.MultiWriter(sum, out), r.tar); err != nil {
		if out.err != nil {
			return fmt.Errorf("copying %s: %w", name, out.err)
		}
		return bad("reading %s: %w", name, unexpected(err))
	}
	fmt.Fprintf(&r.sums, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
	return nil
}

// end reads on to the end, where gzip's own checksum is.
func (r *reader) end(zip io.Reader) error {
	if head, err := r.tar.Next(); err == nil {
		return bad("found %q, expected the end", head.Name)
	} else if !errors.Is(err, io.EOF) {
		return bad("reading the end: %w", err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(zip, smallSize+1))
	if err != nil {
		return bad("reading the end: %w", unexpected(err))
	}
	if n > smallSize {
		return bad("there is more behind the end")
	}
	return nil
}

// sink remembers that it was the writer that failed.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func bad(format string, args ...any) error {
	return structs.Errorf(structs.KindInvalid, format, args...)
}
