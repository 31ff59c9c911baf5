package structs

// The redaction list: the parts of volumes and attachments that no answer to an operator has. The type
// Secrets hides its values in texts and in JSON; msgpack carries them.

// RedactedFlag replaces mount flags in answers.
const RedactedFlag = "[REDACTED]"

// Redacted returns the options for output: mount flags may contain secrets (CSI spec, MountVolume).
func (o *CSIMountOptions) Redacted() *CSIMountOptions {
	if o == nil || len(o.MountFlags) == 0 {
		return o
	}
	return &CSIMountOptions{
		FSType:     o.FSType,
		MountFlags: []string{RedactedFlag},
	}
}

// IsRedacted reports whether the options come from an answer: a request with them keeps the stored flags.
func (o *CSIMountOptions) IsRedacted() bool {
	return o != nil && len(o.MountFlags) == 1 && o.MountFlags[0] == RedactedFlag
}

// Redacted returns a copy for output, without secrets. The copy shares all other parts.
func (v *CSIVolume) Redacted() *CSIVolume {
	c := *v
	c.Secrets = nil
	c.SealedSecrets = nil
	c.Deletion = nil
	c.MountOptions = v.MountOptions.Redacted()
	return &c
}

// Redacted returns a copy for output, without secrets. The copy shares all other parts.
func (a *CSIAttachment) Redacted() *CSIAttachment {
	c := *a
	c.Secrets = nil
	c.SealedSecrets = nil
	c.PublishContext = nil
	c.MountOptions = a.MountOptions.Redacted()
	return &c
}

// Redacted returns a copy for output, without the secrets of the volume and of its attachments; nil stays
// nil. The copy shares all other parts.
func (d *CSIVolumeDetail) Redacted() *CSIVolumeDetail {
	if d == nil {
		return nil
	}
	c := *d
	c.CSIVolume = *d.CSIVolume.Redacted()
	c.Attachments = make([]*CSIAttachment, len(d.Attachments))
	for i, a := range d.Attachments {
		c.Attachments[i] = a.Redacted()
	}
	return &c
}
