package endpoints

import "berth/structs"

// publicVolume is a volume as people see it.
func publicVolume(v *structs.CSIVolume) *structs.CSIVolume {
	c := *v
	c.Secrets, c.Deletion = nil, nil
	c.MountOptions = v.MountOptions.Redacted()
	return &c
}

// publicDetail takes out of a volume's detail, which is the caller's own, what state leaves in it.
func publicDetail(d *structs.CSIVolumeDetail) *structs.CSIVolumeDetail {
	d.CSIVolume = *publicVolume(&d.CSIVolume)
	for _, a := range d.Attachments {
		a.Secrets = nil
		a.PublishContext = nil
		a.MountOptions = a.MountOptions.Redacted()
	}
	return d
}
