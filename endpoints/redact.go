package endpoints

import "berth/structs"

// publicVolume returns a volume without its secrets.
func publicVolume(v *structs.CSIVolume) *structs.CSIVolume {
	c := *v
	c.Secrets = nil
	c.Deletion = nil
	c.MountOptions = v.MountOptions.Redacted()
	return &c
}

// publicDetail removes the secrets that state leaves in the detail of a volume. The detail is the caller's
// own.
func publicDetail(d *structs.CSIVolumeDetail) *structs.CSIVolumeDetail {
	d.CSIVolume = *publicVolume(&d.CSIVolume)
	for _, a := range d.Attachments {
		a.Secrets = nil
		a.PublishContext = nil
		a.MountOptions = a.MountOptions.Redacted()
	}
	return d
}
