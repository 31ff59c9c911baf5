package state

// The bounds on rows of access control.
const (
	MaxPolicies      = maxPolicies
	MaxRoles         = maxRoles
	MaxTokens        = maxTokens
	MaxAuthMethods   = maxAuthMethods
	MaxBindingRules  = maxBindingRules
	MaxOneTimeTokens = maxOneTimeTokens
	MaxLoginMarks    = maxLoginMarks
)

// MaxMethodTokens bounds the tokens of one auth method.
const MaxMethodTokens = maxMethodTokens

// The functions on rows of access control that only this package calls.
var (
	PutLoginMark        = putLoginMark
	KeepAccess          = keepAccess
	CheckMethodTokens   = checkMethodTokens
	CheckAdmissionRules = checkAdmissionRules
)
