package content

import (
	"cmp"
	"os/user"
	"strconv"

	"berth/structs"
)

// OwnerOf returns the owner that a job wants, with the numbers of this machine's users and groups. It fails
// with invalid for names that the machine does not know.
func OwnerOf(o *structs.VolumeOwnership) (Owner, error) {
	w := Owner{
		UID:    KeepOwner,
		GID:    KeepOwner,
		Mode:   KeepOwner,
		Always: o.Policy == structs.OwnershipAlways,
	}
	if o.Owner != "" {
		uid, ok := number(o.Owner, userID)
		if !ok {
			return w, structs.Invalidf("owner %q: this node has no such user; give its number", o.Owner)
		}
		w.UID = uid
	}

	if o.Group != "" {
		gid, ok := number(o.Group, groupID)
		if !ok {
			return w, structs.Invalidf("group %q: this node has no such group; give its number", o.Group)
		}
		w.GID = gid
	}

	if o.Mode != "" {
		mode, err := strconv.ParseUint(o.Mode, 8, 12)
		if err != nil {
			return w, structs.Invalidf("mode %q is no octal mode", o.Mode)
		}
		w.Mode = int(mode)
	}
	return w, nil
}

func userID(name string) (string, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

// number returns the number of a name, or the number that the text is. The greatest one means "keep" to the
// kernel, so it is none.
func number(text string, find func(string) (string, error)) (n int, ok bool) {
	found, err := find(text)
	if err != nil {
		found = ""
	}
	id, err := strconv.ParseUint(cmp.Or(found, text), 10, 32)
	if err != nil || id == 1<<32-1 {
		return 0, false
	}
	return int(id), true
}
