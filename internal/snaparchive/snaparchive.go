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

	"berth/internal/level"
	"berth/structs"
)

// Meta describes a snapshot. Its first five fields have the names and types of Raft's own description, which
// the tools of the dialect read.
type Meta struct {
	Version int       // of Raft's description; Write sets it
	ID      string    // Raft's name of the snapshot; Write sets it
	Index   uint64    // the Raft index of its last entry
	Term    uint64    // the term of that entry
	Size    int64     // of the state; Write sets it
	Level   int       // of the version that wrote it: see package level; Write sets it
	Berth   string    // the name of that version
	Created time.Time // the time at which it was saved
	Region  string    `json:",omitempty"`
	// Redacted is set if keys, secrets and texts were left out, so that the state serves nobody as its own.
	Redacted bool `json:",omitempty"`
}

// CheckRestorable returns an error if the state must not replace a cluster's.
func (m *Meta) CheckRestorable() error {
	if m.Redacted {
		return structs.Preconditionf("the archive is redacted: it lacks all secrets and most of each job, " +
			"so it is no backup; restore the archive from which it was made")
	}
	return nil
}

// raftVersion is the version of Raft's description that Write writes.
const raftVersion = 1

const (
	metaName  = "meta.json"
	stateName = "state.bin"
	sumsName  = "SHA256SUMS"
	smallSize = 1 << 20 // the largest size of meta.json and of SHA256SUMS
)

// Write writes an archive with exactly size bytes of state.
func Write(w io.Writer, meta Meta, size int64, state io.Reader) error {
	zip := gzip.NewWriter(w)
	out := &writer{
		tar: tar.NewWriter(zip),
		at:  meta.Created,
	}
	meta.Version = raftVersion
	// The ID has the form of Raft's own names.
	meta.ID = fmt.Sprintf("%d-%d-%d", meta.Term, meta.Index, meta.Created.UnixMilli())
	meta.Size = size
	meta.Level = level.Now
	head, err := json.MarshalIndent(meta, "", "  ")
	if err == nil {
		err = out.writeFile(metaName,
			int64(len(head)), bytes.NewReader(head))
	}
	if err == nil {
		err = out.writeFile(stateName, size, state)
	}
	if err != nil {
		return err
	}

	// This is a copy, because the writing of the file of sums adds a sum of its own.
	sums := bytes.NewReader(bytes.Clone(out.sums.Bytes()))
	err = out.writeFile(sumsName, sums.Size(), sums)
	if err != nil {
		return err
	}

	err = out.tar.Close()
	return errors.Join(err, zip.Close())
}

// writer writes the files of an archive one by one, and keeps their sums.
type writer struct {
	tar  *tar.Writer
	at   time.Time
	sums sums
}

// writeFile writes a file of a known size, as a header of tar needs it.
func (w *writer) writeFile(name string, size int64, r io.Reader) error {
	head := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Size:     size,
		Mode:     0o600,
		ModTime:  w.at,
		// The older form bounds a file to 8 GiB.
		Format: tar.FormatPAX,
	}

	err := w.tar.WriteHeader(head)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}

	n, err := w.sums.copyFile(w.tar, r, name)
	// The state may have become shorter since its size was taken. Then the header is wrong.
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

// copyFile copies a file and adds its sum.
func (s *sums) copyFile(w io.Writer, r io.Reader, name string) (int64, error) {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), r)
	fmt.Fprintf(s, "%x  %s\n", sum.Sum(nil), name)
	return n, err
}

// Read reads an archive and copies its state to w. Only if it returns without error, w has received the whole
// state that was saved. An error is of kind invalid, unless it is w's own.
func Read(r io.Reader, w io.Writer) (*Meta, error) {
	return read(r, w, checkLevel)
}

// ReadToRestore is Read for a state that replaces a cluster's: see CheckRestorable.
func ReadToRestore(r io.Reader, w io.Writer) (*Meta, error) {
	return read(r, w, func(m *Meta) error {
		err := checkLevel(m)
		if err != nil {
			return err
		}
		return m.CheckRestorable()
	})
}

// read is Read with a check of the description before the state.
func read(r io.Reader, w io.Writer, check func(*Meta) error) (*Meta, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, structs.Invalidf("not a snapshot archive: %w", err)
	}

	in := &reader{tar: tar.NewReader(zip)}
	var head, sums bytes.Buffer
	err = in.readFile(metaName, smallSize, &head)
	if err != nil {
		return nil, err
	}

	meta := &Meta{}
	err = json.Unmarshal(head.Bytes(), meta)
	if err != nil {
		return nil, structs.Invalidf("%s: %w", metaName, err)
	}

	// This precedes the state, so that a long download is not in vain.
	err = check(meta)
	if err != nil {
		return nil, err
	}

	// Indexes are counted on from here, and must not reach the end of their type.
	if max(meta.Index, meta.Term) > structs.MaxArchiveIndex {
		return nil, structs.Invalidf("%s: the index %d or the term %d is larger than %d",
			metaName, meta.Index, meta.Term,
			uint64(structs.MaxArchiveIndex))
	}

	err = in.readFile(stateName, structs.MaxArchive, w)
	if err != nil {
		return nil, err
	}

	// The sums so far are for the two files. Reading the file of sums adds another.
	want := bytes.Clone(in.sums.Bytes())
	err = in.readFile(sumsName, smallSize, &sums)
	if err != nil {
		return nil, err
	}

	if !bytes.Equal(sums.Bytes(), want) {
		return nil, structs.Invalidf("the archive is damaged: its contents do not match %s", sumsName)
	}

	return meta, in.readEnd(zip)
}

// checkLevel rejects an archive whose rows this version could not keep as they are.
func checkLevel(meta *Meta) error {
	switch {
	case meta.Level > level.Now:
		return structs.Preconditionf("a newer version of berth (%s) has saved this snapshot: it has level %d, "+
			"and this version reads up to level %d; restore it with that version, or a later one",
			structs.Cut(meta.Berth, structs.MaxName), meta.Level, level.Now)
	case meta.Level > 0 && meta.Level < level.First:
		return structs.Preconditionf("a version before 0.1.0 (%s) has saved this snapshot: it has level %d, "+
			"and this version reads from level %d. No version restores it; register the jobs and volumes again",
			structs.Cut(meta.Berth, structs.MaxName), meta.Level, level.First)
	case meta.Level < level.First:
		return structs.Preconditionf("the snapshot has no level: a version before 0.1.0 has saved it, " +
			"and no version restores it; register the jobs and volumes again")
	}
	return nil
}

// reader reads the files of an archive one by one, and keeps their sums.
type reader struct {
	tar  *tar.Reader
	sums sums
}

// readFile copies the next file to w. The file must have this name and at most limit bytes.
func (r *reader) readFile(name string, limit int64, w io.Writer) error {
	head, err := r.tar.Next()
	if err != nil {
		return structs.Invalidf("reading %s: %w", name, unexpectedEOF(err))
	}

	// The order is fixed, so an archive with other files is not one that Write has made.
	if head.Name != name || head.Typeflag != tar.TypeReg {
		return structs.Invalidf("found %q, expected %s", head.Name, name)
	}

	if head.Size > limit {
		return structs.Invalidf("%s has %d bytes; an archive can have %d",
			name, head.Size, limit)
	}

	out := &sink{w: w}
	_, err = r.sums.copyFile(out, r.tar, name)
	switch {
	case out.err != nil:
		return fmt.Errorf("copying %s: %w", name, out.err)
	case err != nil:
		return structs.Invalidf("reading %s: %w", name, unexpectedEOF(err))
	}

	return nil
}

// readEnd reads up to the end, because gzip's own checksum is there.
func (r *reader) readEnd(zip io.Reader) error {
	head, err := r.tar.Next()
	if err == nil {
		return structs.Invalidf("found %q, expected the end", head.Name)
	}
	if !errors.Is(err, io.EOF) {
		return structs.Invalidf("reading the end: %w", err)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(zip, smallSize+1))
	if err != nil {
		return structs.Invalidf("reading the end: %w", unexpectedEOF(err))
	}
	if n > smallSize {
		return structs.Invalidf("there is more data after the end")
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

// unexpectedEOF replaces io.EOF, because more has to follow.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
