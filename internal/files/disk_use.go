package files

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"
)

// The bounds of DescribeDisk: it is asked for when something waits.
const (
	describeTime = 5 * time.Second
	partsNamed   = 5
)

// DescribeDisk names the file system of a folder with its free space, and the largest parts below the folder.
func DescribeDisk(ctx context.Context, dir string) string {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if err != nil {
		return fmt.Sprintf("the file system of %s does not answer: %v", dir, err)
	}

	size := uint64(st.Bsize)
	text := fmt.Sprintf("the file system %s has %s of %s free", mountPoint(dir),
		humanize.IBytes(FreeBytes(&st)), humanize.IBytes(st.Blocks*size))
	if st.Files > 0 {
		text += fmt.Sprintf(", and takes %d more files", st.Ffree)
	}

	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	parts, err := partsBelow(ctx, dir)
	if len(parts) == 0 {
		return text
	}
	var uses []string
	for _, p := range parts[:min(len(parts), partsNamed)] {
		uses = append(uses, p.name+" "+humanize.IBytes(p.bytes))
	}
	text += fmt.Sprintf("; below %s: %s", dir, strings.Join(uses, ", "))
	if err != nil {
		text += " or more"
	}
	return text
}

// FreeBytes returns the free bytes of a file system that this process may use. Only root may use the bytes
// that the file system keeps back, which are 5 % of ext4.
func FreeBytes(st *unix.Statfs_t) uint64 {
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return blocks * uint64(st.Bsize)
}

// mountPoint returns the uppermost folder above a folder that is on its file system.
func mountPoint(dir string) string {
	var own, above unix.Stat_t
	if unix.Stat(dir, &own) != nil {
		return dir
	}
	for dir != "/" {
		parent := filepath.Dir(dir)
		if unix.Stat(parent, &above) != nil || above.Dev != own.Dev {
			break
		}
		dir = parent
	}
	return dir
}

// part is a file or a folder with all that is in it.
type part struct {
	name  string // two names below the folder, or one
	bytes uint64 // on the disk
}

// partsBelow returns the parts of a folder, the largest first. It leaves out other file systems, such as the
// volumes that are mounted below it. With an error they are not complete.
func partsBelow(ctx context.Context, dir string) ([]part, error) {
	var root unix.Stat_t
	err := unix.Stat(dir, &root)
	if err != nil {
		return nil, err
	}

	sums := map[string]uint64{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		var st unix.Stat_t
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil, unix.Lstat(path, &st) != nil:
			return nil // it was removed meanwhile, or nobody may read it
		case st.Dev != root.Dev && e.IsDir():
			return fs.SkipDir
		}
		name, err := filepath.Rel(dir, path)
		if err == nil && name != "." {
			words := strings.SplitN(name, string(os.PathSeparator), 3)
			sums[filepath.Join(words[:min(len(words), 2)]...)] += uint64(st.Blocks) * 512
		}
		return err
	})

	var parts []part
	for name, bytes := range sums {
		if bytes > 0 {
			parts = append(parts, part{name, bytes})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.name, b.name))
	})
	return parts, err
}
