package hostpath

import (
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"berth/plugins/hostpath/disk"
)

// flagBits has the mount options that are bits for the kernel, and whether an option clears its bit. A
// directory volume accepts the options of perMountFlags.
var flagBits = map[string]struct {
	bit   uintptr
	clear bool
}{
	"rw":          {unix.MS_RDONLY, true},
	"ro":          {unix.MS_RDONLY, false},
	"suid":        {unix.MS_NOSUID, true},
	"nosuid":      {unix.MS_NOSUID, false},
	"dev":         {unix.MS_NODEV, true},
	"nodev":       {unix.MS_NODEV, false},
	"exec":        {unix.MS_NOEXEC, true},
	"noexec":      {unix.MS_NOEXEC, false},
	"atime":       {unix.MS_NOATIME, true},
	"noatime":     {unix.MS_NOATIME, false},
	"diratime":    {unix.MS_NODIRATIME, true},
	"nodiratime":  {unix.MS_NODIRATIME, false},
	"relatime":    {unix.MS_RELATIME, false},
	"norelatime":  {unix.MS_RELATIME, true},
	"strictatime": {unix.MS_STRICTATIME, false},
	"sync":        {unix.MS_SYNCHRONOUS, false},
	"async":       {unix.MS_SYNCHRONOUS, true},
	"dirsync":     {unix.MS_DIRSYNC, false},
}

// perMountFlags are the flags that a bind mount can have of its own. The others belong to the file system,
// which a directory volume shares with the rest of the disk.
const perMountFlags = unix.MS_RDONLY | unix.MS_NOSUID |
	unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME |
	unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

// forbiddenFlag matches the options that change source, target or propagation of a mount.
var forbiddenFlag = regexp.MustCompile(`bind|shared|slave|private|^(remount|move|loop)$|^loop=`)

// mountFlags parses mount options: bits for the kernel and data for the file system. It rejects options that
// only the driver decides on.
func mountFlags(options []string) (bits uintptr, data []string, err error) {
	for _, list := range options {
		for o := range strings.SplitSeq(list, ",") {
			o = strings.TrimSpace(o)
			f, known := flagBits[o]
			switch {
			case o == "" || o == "defaults":
			case known && f.clear:
				bits &^= f.bit
			case known:
				bits |= f.bit
			case forbiddenFlag.MatchString(o):
				return 0, nil, disk.Invalidf(
					"a mount flag is not allowed: it is the driver's to decide how a volume is mounted")
			default:
				data = append(data, o)
			}
		}
	}

	return bits, data, nil
}
