package artifact

import (
	"path"
	"path/filepath"
	"strings"

	"berth/client/drivers/driver"
	"berth/structs"
)

// place is the destination of an artifact.
type place struct {
	dir  string // a directory of the host whose entries only root makes
	path string // of the destination in dir
}

// placeOf returns the place for a destination. A task may name one of its directories as it sees it. All
// other paths begin at the task's directory, also absolute ones.
func (a *artifacts) placeOf(dest string, seen driver.Dirs) (place, error) {
	for _, d := range []struct {
		seen string
		at   place
	}{
		{seen.AllocShared, place{a.shared, "."}},
		{seen.Local, place{a.taskDir, "local"}},
		{seen.Secrets, place{a.taskDir, "secrets"}},
	} {
		rest, ok := below(d.seen, path.Clean(dest))
		if ok && filepath.IsAbs(dest) {
			return place{d.at.dir, path.Join(d.at.path, rest)}, nil
		}
	}

	clean := path.Clean(strings.TrimLeft(dest, "/"))
	rest, ok := below("../"+filepath.Base(a.shared), clean)
	if ok {
		return place{a.shared, rest}, nil
	}

	if !filepath.IsLocal(clean) {
		return place{}, structs.Invalidf("destination %.80q leads out of the task's directory", dest)
	}

	return place{a.taskDir, clean}, nil
}

// below returns the path of p in dir, which may be dir itself.
func below(dir, p string) (rest string, ok bool) {
	if p == dir {
		return ".", true
	}
	return strings.CutPrefix(p, dir+"/")
}
