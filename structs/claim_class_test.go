package structs

import "testing"

func TestClaimClass_Conflicts(t *testing.T) {
	type class = ClaimClass
	const fs, block = CSIFileSystem, CSIBlockDevice
	for name, c := range map[string]struct {
		a, b class
		want bool
	}{
		"single-node readers": {
			class{CSISingleNodeReader, fs, ClaimRead}, class{CSISingleNodeReader, fs, ClaimRead}, true},
		"single-node writers": {
			class{CSISingleNodeWriter, fs, ClaimWrite}, class{CSISingleNodeWriter, fs, ClaimWrite}, true},
		"multi-node readers": {
			class{CSIMultiNodeReader, fs, ClaimRead}, class{CSIMultiNodeReader, fs, ClaimRead}, false},
		"single-writer, two readers": {
			class{CSIMultiNodeSingleWriter, fs, ClaimRead}, class{CSIMultiNodeSingleWriter, fs, ClaimRead}, false},
		"single-writer, reader and writer": {
			class{CSIMultiNodeSingleWriter, fs, ClaimRead}, class{CSIMultiNodeSingleWriter, fs, ClaimWrite}, false},
		"single-writer, two writers": {
			class{CSIMultiNodeSingleWriter, fs, ClaimWrite}, class{CSIMultiNodeSingleWriter, fs, ClaimWrite}, true},
		"multi-writer, two writers": {
			class{CSIMultiNodeMultipleWriter, fs, ClaimWrite}, class{CSIMultiNodeMultipleWriter, fs, ClaimWrite},
			false},
		"other access modes": {
			class{CSIMultiNodeReader, fs, ClaimRead}, class{CSIMultiNodeMultipleWriter, fs, ClaimRead}, true},
		"other attachment modes": {
			class{CSIMultiNodeReader, fs, ClaimRead}, class{CSIMultiNodeReader, block, ClaimRead}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, back := c.a.Conflicts(c.b), c.b.Conflicts(c.a); got != c.want || back != c.want {
				t.Errorf("%s and %s: %t, the other way round %t, want %t", c.a, c.b, got, back, c.want)
			}
		})
	}
}

func TestClaimClass_IsThatOfUseAndCount(t *testing.T) {
	claim := CSIClaim{AccessMode: CSIMultiNodeReader, AttachmentMode: CSIBlockDevice, Mode: ClaimRead}
	use := CSIVolumeUse{AccessMode: CSIMultiNodeReader, AttachmentMode: CSIBlockDevice, Mode: ClaimRead}
	count := CSIClassCount{AccessMode: CSIMultiNodeReader, AttachmentMode: CSIBlockDevice, Mode: ClaimRead}
	if claim.Class() != use.Class() || claim.Class() != count.Class() {
		t.Errorf("claim %s, use %s, count %s", claim.Class(), use.Class(), count.Class())
	}
}
