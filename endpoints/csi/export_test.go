package csi

import "berth/state/csi"

// FewClaims is how many claims of a volume a quick answer has at most.
const FewClaims = fewClaims

// VolumeName returns the name of a volume at its plugin.
var VolumeName = csi.VolumeName
