package artifacthook

import (
	"cmp"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"berth/client/hook"
	"berth/structs"
)

// bound is a number of bytes, with the setting that it comes from and the remedy.
type bound struct {
	bytes int64
	by    string
}

// smaller returns the smaller one of two bounds.
func smaller(a, b bound) bound {
	if b.bytes < a.bytes {
		return b
	}
	return a
}

// bounds are those of the tree of a download.
type bounds struct {
	usage
	by string // of its bytes
}

func (b bounds) fault() error {
	return fmt.Errorf("it has more than %d bytes (%s) or %d files", b.bytes, b.by, b.entries)
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
func diskBound(env *hook.AllocEnv) bound {
	size := diskBytes(env.Group)
	return bound{
		bytes: max(size-env.Downloaded.Load(), 0),
		by: fmt.Sprintf("the artifacts of the allocation may have %d MiB, the size of ephemeral_disk of its "+
			"group; raise it", size>>20),
	}
}

// freeBound returns what may come into a directory of the node: beside it, MinFree stays free.
func (a *artifacts) freeBound(dir string) (bound, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if err != nil {
		return bound{}, fmt.Errorf("reading the free space of the node: %w", err)
	}
	free := int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize))) * st.Bsize
	keep := a.cfg.MinFree()
	return bound{
		bytes: max(free-keep, 0),
		by: fmt.Sprintf("this node has %s free and keeps %s by client.moved_data.min_free; free some",
			structs.FormatBytes(free), structs.FormatBytes(keep)),
	}, nil
}

// account adds the files of an artifact to those of the allocation, unless its ephemeral_disk is too small
// for them. Other tasks of the allocation download at the same time.
func account(env *hook.AllocEnv, got usage) error {
	size := diskBytes(env.Group)
	if env.Downloaded.Add(got.bytes) <= size {
		return nil
	}
	env.Downloaded.Add(-got.bytes)
	return structs.Unavailablef("it has %d bytes (%s)", got.bytes, diskBound(env).by)
}
