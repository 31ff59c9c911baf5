package shelf

import "github.com/container-storage-interface/spec/lib/go/csi"

// tokensKey is where a call has the tokens of the allocation that uses the volume.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// noteTokens records the tokens of a call, if it has some.
func (s *shelf) noteTokens(req *csi.NodePublishVolumeRequest) {
	for place, m := range map[string]map[string]string{
		"secrets":        req.GetSecrets(),
		"volume_context": req.GetVolumeContext(),
	} {
		text := m[tokensKey]
		if text != "" {
			s.append("tokens", req.GetVolumeId(), place, text)
		}
	}
}
