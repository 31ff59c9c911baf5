package endpoints

import "berth/structs"

// redactedFlags stand for mount flags in answers to people: they may hold secrets (CSI spec, MountVolume).
var redactedFlags = []string{"[REDACTED]"}

func redactFlags(o *structs.CSIMountOptions) *structs.CSIMountOptions {
	if o == nil || len(o.MountFlags) == 0 {
		return o
	}
	return &structs.CSIMountOptions{FSType: o.FSType, MountFlags: redactedFlags}
}

// isRedacted reports whether mount options are those of an answer, put back unread.
func isRedacted(o *structs.CSIMountOptions) bool {
	return o != nil && len(o.MountFlags) == 1 && o.MountFlags[0] == redactedFlags[0]
}

// publicVolume is a volume as people see it.
func publicVolume(v *structs.CSIVolume) *structs.CSIVolume {
	c := *v
	c.Secrets, c.Deletion = nil, nil
	c.MountOptions = redactFlags(v.MountOptions)
	return &c
}

// publicDetail takes out of a volume's detail, which is the caller's own, what state leaves in it.
func publicDetail(d *structs.CSIVolumeDetail) *structs.CSIVolumeDetail {
	d.CSIVolume = *publicVolume(&d.CSIVolume)
	for _, a := range d.Attachments {
		a.Secrets, a.PublishContext, a.MountOptions = nil, nil, redactFlags(a.MountOptions)
	}
	return d
}
