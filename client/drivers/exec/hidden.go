package exec

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/client/drivers/driver"
	"berth/client/drivers/sandbox"
	"berth/structs"
)

// defaultHidden are the private files of a machine in the directories that tasks see by default.
var defaultHidden = []string{
	"/etc/NetworkManager/system-connections",
	"/etc/ceph",
	"/etc/consul.d",
	"/etc/corosync",
	"/etc/docker",
	"/etc/gshadow", "/etc/gshadow-",
	"/etc/ipsec.d", "/etc/ipsec.secrets",
	"/etc/iscsi",
	"/etc/krb5.keytab",
	"/etc/letsencrypt",
	"/etc/multipath", "/etc/nvme",
	"/etc/netplan",
	"/etc/openvpn",
	"/etc/pki/tls/private",
	"/etc/security/opasswd",
	"/etc/shadow", "/etc/shadow-",
	"/etc/ssh",
	"/etc/ssl/private",
	"/etc/sudoers", "/etc/sudoers.d",
	"/etc/wireguard",
}

// neededDirs are directories, besides ChrootEnv, whose files tasks need. They cannot be hidden.
var neededDirs = []string{
	"/etc", "/etc/ca-certificates",
	"/etc/pki", "/etc/pki/tls", "/etc/pki/tls/certs",
	"/etc/ssl", "/etc/ssl/certs",
	"/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/share",
	"/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/local/share",
}

// hiddenPaths returns what tasks without privileges do not see of the shown paths: the files of Hidden, and
// the directories of the agent's own files. A file of its own is replaced by a rename, as a certificate is at
// each renewal, and the new one would show: only a directory hides it for good.
func (c Config) hiddenPaths(shown map[string]string) ([]string, error) {
	hidden := slices.Clone(c.Hidden)
	roots := newShownRoots(shown)
	for _, path := range c.OwnFiles {
		dirs, err := roots.ownDirs(path)
		if err != nil {
			return nil, err
		}
		hidden = append(hidden, dirs...)
	}

	slices.Sort(hidden)
	return slices.Compact(hidden), nil
}

// HiddenPlaces returns the places at which tasks must not see paths of the host, and whether each is a
// directory, for a driver that shows ChrootEnv by itself.
func (c Config) HiddenPlaces() (map[string]bool, error) {
	c = c.withDefaults()
	hidden, err := c.hiddenPaths(c.ChrootEnv)
	if err != nil {
		return nil, err
	}
	return sandbox.HiddenPlaces(hidden, c.ChrootEnv)
}

// shownRoots are the real paths that tasks see, with all that is below them.
type shownRoots []string

func newShownRoots(shown map[string]string) (roots shownRoots) {
	for from := range shown {
		roots = append(roots, realPath(from))
	}
	return roots
}

// ownDirs returns the directories that hide a file or a directory of the agent from tasks that see the roots.
// The file may be a link, and then its directory and its target's are both hidden.
func (roots shownRoots) ownDirs(path string) (dirs []string, err error) {
	real := realPath(path)
	info, err := os.Stat(real)

	missing := err != nil
	places := []string{real}
	if missing || !info.IsDir() {
		places = []string{realPath(filepath.Dir(path)), filepath.Dir(real)}
	} else if roots.haveBelow(real) {
		// A directory above what tasks see cannot be hidden as a whole.
		return nil, notHidden(path, real)
	}

	for _, dir := range places {
		switch {
		case !roots.show(dir):
		case !roots.need(dir):
			dirs = append(dirs, dir)
		// A file that does not exist yet keeps no task from its start. Once it is there, the next fingerprint
		// finds it in a directory that tasks need.
		case !missing:
			return nil, notHidden(path, dir)
		}
	}
	return dirs, nil
}

func notHidden(path, dir string) error {
	return structs.Preconditionf("tasks of exec would see %s, which is for the agent alone: they need %s, "+
		"so it cannot be hidden; move the agent's files to a directory of their own, such as /etc/berth, or change chroot_env", path, dir)
}

// show reports whether tasks see a directory.
func (roots shownRoots) show(dir string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		_, within := sandbox.Below(dir, root)
		return within
	})
}

// haveBelow reports whether a root is a directory or below it.
func (roots shownRoots) haveBelow(dir string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		_, within := sandbox.Below(root, dir)
		return within
	})
}

// need reports whether tasks need the files of a directory.
func (roots shownRoots) need(dir string) bool {
	return roots.haveBelow(dir) || slices.Contains(neededDirs, dir)
}

// visible returns the paths of the host that a task sees, and what is hidden of them: nothing from a
// privileged task, which can mount the disks of the machine.
func (d *Driver) visible(cfg *driver.TaskConfig) (shown map[string]string, hidden []string, err error) {
	shown = d.cfg.shownPaths()
	hidden, err = d.cfg.hiddenPaths(shown)
	if cfg.Privileged {
		hidden = nil
	}
	return shown, hidden, err
}

// shownPaths returns the paths of the host that tasks see, with their places.
func (c Config) shownPaths() map[string]string {
	// Tasks follow the link of the host to its file of name servers, so they see the directory of that, too.
	dir := resolverDir(c.ChrootEnv)
	if dir == "" {
		return c.ChrootEnv
	}

	shown := maps.Clone(c.ChrootEnv)
	shown[dir] = cmp.Or(shown[dir], dir)
	return shown
}

// hiddenFaults names the faults of Hidden.
func (c Config) hiddenFaults() (faults []error) {
	if len(c.Hidden) > maxHidden {
		faults = append(faults, fmt.Errorf("exec.hidden: %d paths; at most %d", len(c.Hidden), maxHidden))
	}
	for _, path := range c.Hidden {
		// The root itself would leave nothing of the host.
		if !isCleanPath(path) || path == "/" {
			faults = append(faults, fmt.Errorf("exec.hidden: %q: expected an absolute path of this machine",
				structs.Cut(path, structs.MaxQuoted)))
		}
	}
	return faults
}

// maxHidden bounds Hidden: each start of a task covers all of them.
const maxHidden = 256
