package nodecalls

import "time"

// AllocFileInfo describes a file in the directory of an allocation, in the dialect's shape.
type AllocFileInfo struct {
	Name        string
	IsDir       bool
	Size        int64  // bytes
	FileMode    string // as in -rw-r--r--
	ModTime     time.Time
	ContentType string // of a plain file, by its name or else its first bytes
}
