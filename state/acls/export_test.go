package acls

// The bounds on rows.
const (
	MaxPolicies = maxPolicies
	MaxRoles    = maxRoles
	MaxTokens   = maxTokens
	MaxMethods  = maxMethods
	MaxRules    = maxRules
	MaxOneTimes = maxOneTimes
	MaxMarks    = maxMarks
)

// MaxMethodTokens bounds the tokens of one auth method.
const MaxMethodTokens = maxMethodTokens

// PutMark stores the mark of a login.
var PutMark = putMark
