package validate

import (
	"strings"

	"berth/structs"
)

// MaxSubPath bounds the path of a folder, in bytes: the kernel takes no longer one.
const MaxSubPath = 4095

// maxFolderName bounds one name in a path, in bytes, as file systems do.
const maxFolderName = 255

// SubPath returns the fault of the path of a folder inside a volume, which a task mounts in place of the
// whole volume: an invalid error, or nil. The path is relative to the root of the volume, may not lead out of
// it, and has one spelling for each folder. The servers check what a job says, and the node checks it again
// with the values of placeholders.
func SubPath(path string) error {
	if len(path) > MaxSubPath {
		return structs.Invalidf("sub_path has %d bytes, more than %d", len(path), MaxSubPath)
	}

	quoted := structs.Cut(path, structs.MaxQuoted)
	switch {
	case strings.HasPrefix(path, "/"):
		return structs.Invalidf("sub_path %q is absolute: give the path from the root of the volume", quoted)
	case strings.Contains(path, "\x00"):
		return structs.Invalidf("sub_path %q has a zero byte", quoted)
	}

	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "" || name == "." || name == "..":
			return structs.Invalidf("sub_path %q has the part %q: give the names of folders, such as data/pg",
				quoted, name)
		case len(name) > maxFolderName:
			return structs.Invalidf("sub_path %q has a name of %d bytes, more than %d",
				quoted, len(name), maxFolderName)
		}
	}
	return nil
}
