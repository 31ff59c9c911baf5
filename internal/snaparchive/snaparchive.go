// Package snaparchive reads and writes the file of a saved snapshot. The file is a gzipped tar of three
// files in this order: meta.json (a Meta), state.bin (Raft's snapshot as the state machine wrote it) and
// SHA256SUMS (the sums of both, in the form that sha256sum -c reads).
//
// A caller may use the state only after Read has returned without error, because the sums come last. The
// package does not look into state.bin.
package snaparchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"berth/structs"
)

// Meta describes a snapshot.
type Meta struct {
	Index   uint64    // the Raft index of its last entry
	Term    uint64    // the term of that entry
	Version string    // the version of berth that wrote it
	Created time.Time // the time at which it was saved
	Region  string    `json:",omitempty"`
}

const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"
	smallSize = 1 << 20 // the most of meta.json and of SHA256SUMS
)

// Write writes an archive with exactly size bytes of state.
func Write(w io.Writer, meta Meta, size int64, state io.Reader) error {
	zip := gzip.NewWriter(w)
	out := &writer{tar: tar.NewWriter(zip), at: meta.Created}
	head, err := json.MarshalIndent(meta, "", "  ")
	if err == nil {
		err = out.file(metaName, int64(len(head)), bytes.NewReader(head))
	}
	if err == nil {
		err = out.file(stateName, size, state)
	}
	if err != nil {
		return err
	}
	sums := bytes.NewReader(bytes.Clone(out.sums.Bytes()))
	if err := out.file(sumsName, sums.Size(), sums); err != nil {
		return err
	}
	return errors.Join(out.tar.Close(), zip.Close())
}

type writer struct {
	tar  *tar.Writer
	at   time.Time
	sums sums
}

func (w *writer) file(name string, size int64, r io.Reader) error {
	head := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Size:     size,
		Mode:     0o600,
		ModTime:  w.at,
		Format:   tar.FormatPAX,
	}
	if err := w.tar.WriteHeader(head); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	n, err := w.sums.copy(w.tar, r, name)
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes instead of %d", n, size)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// sums are the lines of SHA256SUMS.
type sums struct{ bytes.Buffer }

// copy copies a file and adds its sum.
func (s *sums) copy(w io.Writer, r io.Reader, name string) (int64, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), r)
	fmt.Fprintf(s, "%x  %s\n", sum.Sum(nil), name)
	return n, err
}

// Read reads an archive and copies its state to w. Only if it returns without error, w has received the whole
// state that was saved. An error is of kind invalid, unless it is w's own.
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
	sums sums
}

// file copies the next file to w. The file must have this name and at most limit bytes.
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
	out := &sink{w: w}
	if _, err := r.sums.copy(out, r.tar, name); err != nil {
		if out.err != nil {
			return fmt.Errorf("copying %s: %w", name, out.err)
		}
		return bad("reading %s: %w", name, unexpected(err))
	}
	return nil
}

// end reads up to the end, because gzip's own checksum is there.
func (r *reader) end(zip io.Reader) error {
	head, err := r.tar.Next()
	if err == nil {
		return bad("found %q, expected the end", head.Name)
	}
	if !errors.Is(err, io.EOF) {
		return bad("reading the end: %w", err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(zip, smallSize+1))
	if err != nil {
		return bad("reading the end: %w", unexpected(err))
	}
	if n > smallSize {
		return bad("there is more data after the end")
	}
	return nil
}

// sink keeps the error of the writer, to distinguish it from an error of the archive.
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
	return structs.Invalidf(format, args...)
}
