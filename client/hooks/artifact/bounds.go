package artifact

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"berth/client/hooks"
	"berth/client/hooks/artifact/download"
	"berth/structs"
)

// smaller returns the smaller one of two bounds.
func smaller(a, b download.Bound) download.Bound {
	if b.Bytes < a.Bytes {
		return b
	}
	return a
}

// both returns the bound of two things together.
func both(a, b download.Bound) download.Bound {
	by := a.By
	if b.By != a.By {
		by += "; " + b.By
	}
	return download.Bound{
		Bytes:   a.Bytes + b.Bytes,
		By:      by,
		Passing: a.Passing || b.Passing,
	}
}

// bounds bound the tree of a download.
type bounds struct {
	size    download.Bound
	entries int // files, directories and links
}

func (b bounds) usage() usage { return usage{bytes: b.size.Bytes, entries: b.entries} }

func (b bounds) fault() error {
	return excess(b.size, "it has more than %d bytes (%s) or %d files", b.size.Bytes, b.size.By, b.entries)
}

// finalError is the error of an artifact above a bound that a later download has too.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// excess returns the error of an artifact above a bound.
func excess(b download.Bound, format string, args ...any) error {
	// There may be space for it at the next try.
	if b.Passing {
		return structs.Unavailablef(format, args...)
	}
	return finalError{structs.Preconditionf(format, args...)}
}

func isFinal(err error) bool {
	_, is := errors.AsType[finalError](err)
	return is
}

// withSource adds the source to the error of a download. The kind says whether a repetition may help.
func withSource(spec *structs.TaskArtifact, err error) error {
	source := shownSource(spec.GetterSource)
	if isFinal(err) {
		return structs.Preconditionf("%s: %w", source, err)
	}
	return structs.Unavailablef("%s: %w", source, err)
}

// diskBytes returns how much the ephemeral_disk of a group may have. A group that reserves no space, or whose
// JSON leaves the size out, may have the default.
func diskBytes(g *structs.TaskGroup) int64 {
	size := 0
	if g != nil && g.EphemeralDisk != nil {
		size = g.EphemeralDisk.SizeMB
	}
	return int64(cmp.Or(size, structs.DefaultDiskMB)) << 20
}

// diskBound returns what the ephemeral_disk of the allocation leaves for one more artifact.
func diskBound(env *hooks.AllocEnv) download.Bound {
	size := diskBytes(env.Group)
	return download.Bound{
		Bytes: max(size-env.Downloaded.Load(), 0),
		By:    fmt.Sprintf("the artifacts of the allocation may have %d MiB, the size of ephemeral_disk of its group; raise it", size>>20),
	}
}

// freeBound returns what may come into a directory of the node: beside it, MinFree stays free.
func (a *artifacts) freeBound(dir string) (download.Bound, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if err != nil {
		return download.Bound{}, fmt.Errorf("reading the free space of the node: %w", err)
	}

	// A file system may report so many blocks that their bytes do not fit the integer.
	free := int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize
	keep := a.cfg.MinFree()
	return download.Bound{
		Bytes: max(free-keep, 0),
		By: fmt.Sprintf("this node has %s free and keeps %s by client.moved_data.min_free; free some",
			structs.FormatBytes(free), structs.FormatBytes(keep)),
		// Another download may end, or an operator may free some.
		Passing: true,
	}, nil
}

// account adds the files of an artifact to the allocation's, unless its ephemeral_disk is too small for them.
// Other tasks of the allocation download at the same time.
func account(env *hooks.AllocEnv, got usage) error {
	size := diskBytes(env.Group)
	// The sum is taken and compared at once, so two tasks cannot both have the last space.
	if env.Downloaded.Add(got.bytes) <= size {
		return nil
	}
	// The sum counts only files that stay.
	env.Downloaded.Add(-got.bytes)
	most := diskBound(env)
	return excess(most, "it has %d bytes (%s)", got.bytes, most.By)
}
