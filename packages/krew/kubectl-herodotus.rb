# The formula for a tap. packages/krew/build.py adds the version, and address and hash of each archive.
class KubectlHerodotus < Formula
  desc "Explain why a pod runs where it runs, or nowhere"
  homepage "https://github.com/herodotus-scheduler/herodotus"
  version "{version}"
  license "Apache-2.0"

  depends_on :linux

  on_linux do
    {archives}
  end

  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"kubectl-herodotus", libexec/"kubectl_complete-herodotus"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/kubectl-herodotus version --client")
  end
end
