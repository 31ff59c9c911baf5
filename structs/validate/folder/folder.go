// Package folder checks the names of folders inside a volume, which a task may mount in place of the whole
// volume. The servers check what a job says, and the node checks it again with the values of placeholders.
package folder

import (
	"strings"

	"berth/structs"
)

// MaxPath bounds the path of a folder, in bytes: the kernel takes no longer one.
const MaxPath = 4095

// maxName bounds one name in a path, in bytes, as file systems do.
const maxName = 255

// Check returns the fault of the path of a folder, relative to the root directory of its volume: an invalid
// error, or nil. The path may not lead out of the volume, and has one spelling for each folder.
func Check(path string) error {
	if len(path) > MaxPath {
		return structs.Invalidf("sub_path has %d bytes, more than %d", len(path), MaxPath)
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
		case len(name) > maxName:
			return structs.Invalidf("sub_path %q has a name of %d bytes, more than %d", quoted, len(name), maxName)
		}
	}
	return nil
}
