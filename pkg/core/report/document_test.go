package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEmphasisIsOursAndANameMayBeAPattern(t *testing.T) {
	d := document{{intro: []line{lineOf("**restart** of ", nameOf("conf/**/x"))}}}
	require.Equal(t, "restart of conf/**/x\n", d.text())
	require.Contains(t, d.markdown(), "**restart** of `conf/**/x`")
}
